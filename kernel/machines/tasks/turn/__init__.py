"""The turn: what one agent does about one claim of a task, from claim to clean-up."""
