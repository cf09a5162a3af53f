"""Visual question answering: counting in attention, ordering in BAN."""
