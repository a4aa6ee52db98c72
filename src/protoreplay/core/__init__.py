"""What every room stands on: errors, files, random numbers, settings, progress. It knows nothing of learning."""
