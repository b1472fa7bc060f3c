"""The live service: devices randomise, the service decides, and nothing acknowledged is ever lost."""
