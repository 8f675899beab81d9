"""Plans of coding tasks: files of tasks that wait until a person approves them."""
