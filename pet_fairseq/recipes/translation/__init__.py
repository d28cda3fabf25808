"""The recipes that train and compare translation models."""
