"""Images to features: trained networks, bodies made from data, frozen pretrained networks."""
