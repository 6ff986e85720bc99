"""What the documents are made from: tables, pictures, lists of flags."""
