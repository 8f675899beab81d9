"""The inference of a thread's intent, context and action by a model."""
