"""Frozen networks that turn photos into features: EfficientNet-Lite, any timm model, any ONNX file."""
