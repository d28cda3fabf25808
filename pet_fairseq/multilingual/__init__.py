"""Multilingual models as bilingual ones: what they read around a sentence is put there."""
