"""Which launches libraries may make: products and convolutions as data. Read first: `products`, `convolutions`."""
