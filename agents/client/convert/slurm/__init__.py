"""Slurm's batch scripts as jobs: `shell` and `options` read, `request` counts, `steps` rewrites, `sbatch` makes."""
