"""The recipes that train SelfCP and compare ways to read long prompts."""
