"""What takes longer than a page may: rehearsals, and the plans of very wide tables, in processes of their own."""
