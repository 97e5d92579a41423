"""Further embedding models: PyTorch and sentence-transformers, many languages, Google.

Owns: loading and running these models.
Does not own: the bundled model, ONNX models from folders, Ollama and OpenAI (providers).
Must hold: the contract suite of embedders passes; nothing heavy is imported before its first use.
"""
