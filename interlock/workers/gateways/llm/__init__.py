"""Models: a question about a request goes in, a typed outcome comes out; nothing here fires."""
