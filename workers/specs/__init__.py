"""Files that people write: how they are read, with every problem in them named."""
