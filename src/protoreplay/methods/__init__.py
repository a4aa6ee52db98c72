"""One file per method, the contract they share, and the registry that names them."""
