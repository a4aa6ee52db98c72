"""An image set becomes a stream of tasks."""
