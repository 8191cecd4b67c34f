"""What an exercise is: its data, its inputs, its precision contract, and the verdict on an answer."""
