"""What is published: the folder, its documents and report, and its verification."""
