"""The recipes that train and compare plugins and other cheap forms of a model."""
