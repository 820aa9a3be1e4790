"""Attention mechanisms, recurrent layers, encoders and decoders as ordinary PyTorch modules.

Inputs are token ids and tensors, outputs are tensors. The names that experiment files use for these classes are in
`regard.config.kinds`.
"""

from regard.nn.attention import Attention, Memory, attend
from regard.nn.attention_encoders import PlainAttentionEncoder, RecurrentSelfAttentionEncoder
from regard.nn.attention_history import AttentionHistory, QueryHistory
from regard.nn.dropout import Dropout
from regard.nn.encoder_decoder import Decoder, Encoder, Encoding, State
from regard.nn.history_mechanisms import CoverageAttention, LocationAttention
from regard.nn.mechanisms import (
    AdditiveAttention,
    BilinearAttention,
    DotAttention,
    KeyedAttention,
    MultiHeadAttention,
    ScaledDotAttention,
)
from regard.nn.normalizers import entmax15, sparsemax
from regard.nn.patches import PatchProjection
from regard.nn.positions import (
    AddedSinusoidalPositions,
    Embedding,
    LearnedPositions,
    OneHotPositions,
    Positions,
    RelativePositions,
    SinusoidalPositions,
    sinusoidal_encoding,
)
from regard.nn.readout import DirectReadout, Readout, TiedReadout
from regard.nn.recurrent import RecurrentDecoder, RecurrentEncoder
from regard.nn.recurrent_layers import GRU, LSTM, RecurrentLayers, TanhRNN, TorchRecurrentLayers
from regard.nn.recurrent_start import CopyStart, ReluStart, TanhStart, ZeroStart
from regard.nn.relative_positions import AlibiPositions, RotaryPositions
from regard.nn.self_attention import SelfAttention
from regard.nn.self_attention_maps import SelfAttentionMaps, record_self_attention
from regard.nn.seq2seq import Seq2Seq
from regard.nn.ssru import SSRU, SSRULayer
from regard.nn.step_attention import StepAttention, StepModule
from regard.nn.transformer import SelfAttentionEncoder, TransformerDecoder
from regard.nn.transformer_layers import DecoderLayer, EncoderLayer, FeedForward, LayerOptions
from regard.nn.unscored_mechanisms import AlignedAttention, LastAttention, MeanAttention, NoAttention
from regard.nn.window_mechanisms import LocalAttention, MonotonicAttention
from regard.nn.wirings import AttendAfterDecoder, AttendBeforeDecoder, InputFeedingDecoder

__all__ = [
    "GRU",
    "LSTM",
    "SSRU",
    "AddedSinusoidalPositions",
    "AdditiveAttention",
    "AlibiPositions",
    "AlignedAttention",
    "AttendAfterDecoder",
    "AttendBeforeDecoder",
    "Attention",
    "AttentionHistory",
    "BilinearAttention",
    "CopyStart",
    "CoverageAttention",
    "Decoder",
    "DecoderLayer",
    "DirectReadout",
    "DotAttention",
    "Dropout",
    "Embedding",
    "Encoder",
    "EncoderLayer",
    "Encoding",
    "FeedForward",
    "InputFeedingDecoder",
    "KeyedAttention",
    "LastAttention",
    "LayerOptions",
    "LearnedPositions",
    "LocalAttention",
    "LocationAttention",
    "MeanAttention",
    "Memory",
    "MonotonicAttention",
    "MultiHeadAttention",
    "NoAttention",
    "OneHotPositions",
    "PatchProjection",
    "PlainAttentionEncoder",
    "Positions",
    "QueryHistory",
    "Readout",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RecurrentLayers",
    "RecurrentSelfAttentionEncoder",
    "RelativePositions",
    "ReluStart",
    "RotaryPositions",
    "SSRULayer",
    "ScaledDotAttention",
    "SelfAttention",
    "SelfAttentionEncoder",
    "SelfAttentionMaps",
    "Seq2Seq",
    "SinusoidalPositions",
    "State",
    "StepAttention",
    "StepModule",
    "TanhRNN",
    "TanhStart",
    "TiedReadout",
    "TorchRecurrentLayers",
    "TransformerDecoder",
    "ZeroStart",
    "attend",
    "entmax15",
    "record_self_attention",
    "sinusoidal_encoding",
    "sparsemax",
]
