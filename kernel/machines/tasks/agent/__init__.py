"""The agent: one supervised process that works on tasks."""
