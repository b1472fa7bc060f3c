"""The live service: devices randomise, the service decides, nothing acknowledged is lost."""
