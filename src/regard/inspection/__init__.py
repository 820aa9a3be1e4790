"""Looking at what a model learned: attention maps, beam trees and learning curves, as figures and as files."""
