"""The scripts behind the pages: each is named after the page whose tables and figures it makes."""
