"""The passes that pipelines lean on: types, normal forms, unused functions, spans."""
