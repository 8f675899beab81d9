"""Plans of coding tasks: their files, their admission and what people do with them."""
