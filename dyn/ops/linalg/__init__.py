"""Linear algebra: factors, systems of equations, spectra, computed by LAPACK."""
