"""Time and memory: noise, counting, the engine, tables larger than memory."""
