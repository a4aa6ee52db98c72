"""The heart: Gaussian prototypes, their distances, and the classifiers that follow from them."""
