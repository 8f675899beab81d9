"""The demonstration: the requests of the inbox from producer to done."""
