"""What an expression can be, types as authors write them, and making values fit declared types."""
