"""Chapter 4: put sets into an order by a learned comparison."""
