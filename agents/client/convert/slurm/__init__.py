"""Slurm's batch scripts as jobs: `options` reads, `request` counts, `steps` rewrites, `sbatch` makes."""
