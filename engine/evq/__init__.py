"""The eVQ family: ellipsoidal clusters that follow the data, merge and split."""
