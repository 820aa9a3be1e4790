"""What people see while a program runs: results, messages, tables and progress, on a terminal or in a file."""
