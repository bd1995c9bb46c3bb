"""The production backend arrives in a later release; nothing is exported yet."""
