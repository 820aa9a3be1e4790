"""How good a model is: teacher-forced and free-running measures, exact matches, BLEU, alignment."""
