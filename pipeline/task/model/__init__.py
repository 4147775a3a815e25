"""The learned state of one stream: preparation, engine, labels, and the lifetimes of its clusters."""
