"""The families of tasks, model parts and schedules, one table each: the name in an experiment file and the class.

Classes are imported when they are first used, so that reading this module imports no model code. A class with options
names its settings class `Section`, a subclass of the family's section below. `cell`, `wiring`, `start`, `readout` and
`optimizer.kind` choose a class without options of its own. Plug-ins extend every family but the optimizers, whose state
a checkpoint has to know.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import Field, SerializeAsAny, model_validator

from regard.config.base import Count, KindSection, Section, Size, invalid_combination
from regard.config.families import Kinds, NameOf, SectionOf


class DataSection(Section):
    """The settings of a task, the section `data` of an experiment. Each task has a subclass.

    Attributes:
        task: Name of the task.
        path_keys: Keys that name files; relative paths start from the folder of the experiment file.
        test_set_key: The key that chooses one of several test sets, which may be another one in an evaluation.
    """

    task: str = ""
    path_keys: ClassVar[frozenset[str]] = frozenset()
    test_set_key: ClassVar[str | None] = None

    @property
    def test_set(self) -> str | None:
        """The name of the chosen test set, if there are several."""
        return getattr(self, self.test_set_key) if self.test_set_key else None


TASKS: Kinds[DataSection] = Kinds(
    "task",
    "",
    {
        "case": "regard.tasks.case:CaseTask",
        "spaces": "regard.tasks.spaces:SpacesTask",
        "addition": "regard.tasks.addition:AdditionTask",
        "reverse": "regard.tasks.reverse:ReverseTask",
        "copy": "regard.tasks.copy:CopyTask",
        "clauses": "regard.tasks.clauses:ClausesTask",
        "lookahead": "regard.tasks.lookahead:LookaheadTask",
        "questions": "regard.tasks.questions:QuestionsTask",
        "text-line": "regard.tasks.text_line:TextLineTask",
        "files": "regard.tasks.files:FilesTask",
        "multi30k": "regard.tasks.parallel:Multi30kTask",
        "g2p": "regard.tasks.g2p:G2PTask",
    },
    base="regard.tasks.base:Task",
    section=DataSection,
    key="task",
)


class TokenizerSection(Section):
    """The section `data.text`: tokens and vocabularies. They are learned from the training split.

    Attributes:
        unit: What a token is, the name of a tokenizer: `characters`, `words` or `subwords`.
        joint: Whether both sides have one vocabulary.
        size: Size of a vocabulary; null means 4,000 subwords, or all other tokens.
        min_frequency: Tokens that are less frequent are unknown; not of subwords.
        lowercase: Whether texts are converted to lower case.
    """

    unit: str = "subwords"
    joint: bool = True
    size: int | None = Field(default=None, ge=1, le=1_000_000)
    min_frequency: int = Field(default=1, ge=1)
    lowercase: bool = False


TOKENIZERS: Kinds[TokenizerSection] = Kinds(
    "tokenizer",
    "subwords",
    {
        "characters": "regard.text.tokenizers:CharacterTokenizer",
        "words": "regard.text.tokenizers:WordTokenizer",
        "subwords": "regard.text.subwords:SubwordTokenizer",
    },
    base="regard.text.tokenizers:Tokenizer",
    section=TokenizerSection,
    key="unit",
)


class AttentionSection(KindSection):
    """Settings that every attention mechanism has."""

    @property
    def has_scores(self) -> bool:
        """Whether the weights depend on the query, so that they select source positions."""
        return True

    def of_format(self, format: int) -> Self:
        """These settings with the defaults that they had in run directories of an earlier format.

        Args:
            format: The format of a run directory.
        """
        return self

    def changed_training(self, format: int) -> str | None:
        """What training does differently with these settings than in run directories of an earlier format, if anything.

        Args:
            format: The format of a run directory.
        """
        return None

    def check_sizes(self, query_size: int, memory_size: int) -> None:
        """Raise `invalid_combination` if the mechanism cannot compare vectors of these sizes.

        Args:
            query_size: Size of a query.
            memory_size: Size of a state of the memory.
        """


class PositionsSection(KindSection):
    """Settings that every position encoding has.

    Attributes:
        is_relative: Whether the encoding acts inside self-attention and leaves the embeddings as they are.
    """

    is_relative: ClassVar[bool] = False

    @property
    def max_length(self) -> int | None:
        """Number of positions that can be encoded; None means no limit."""
        return None

    def check_heads(self, heads: int, size: int) -> None:
        """Raise `invalid_combination` if a relative encoding cannot be used with self-attention heads.

        Args:
            heads: Number of heads.
            size: Size of the states that they share.
        """


MECHANISMS: Kinds[AttentionSection] = Kinds(
    "attention",
    "scaled-dot",
    {
        "none": "regard.nn.unscored_mechanisms:NoAttention",
        "last": "regard.nn.unscored_mechanisms:LastAttention",
        "mean": "regard.nn.unscored_mechanisms:MeanAttention",
        "aligned": "regard.nn.unscored_mechanisms:AlignedAttention",
        "dot": "regard.nn.mechanisms:DotAttention",
        "scaled-dot": "regard.nn.mechanisms:ScaledDotAttention",
        "bilinear": "regard.nn.mechanisms:BilinearAttention",
        "additive": "regard.nn.mechanisms:AdditiveAttention",
        "multi-head": "regard.nn.mechanisms:MultiHeadAttention",
        "location": "regard.nn.history_mechanisms:LocationAttention",
        "coverage": "regard.nn.history_mechanisms:CoverageAttention",
        "local": "regard.nn.window_mechanisms:LocalAttention",
        "monotonic": "regard.nn.window_mechanisms:MonotonicAttention",
    },
    base="regard.nn.attention:Attention",
    section=AttentionSection,
)
POSITIONS: Kinds[PositionsSection] = Kinds(
    "position encoding",
    "none",
    {
        "none": "regard.nn.positions:Positions",
        "one-hot": "regard.nn.positions:OneHotPositions",
        "sine": "regard.nn.positions:SinusoidalPositions",
        "sine-added": "regard.nn.positions:AddedSinusoidalPositions",
        "learned": "regard.nn.positions:LearnedPositions",
        "rotary": "regard.nn.relative_positions:RotaryPositions",
        "alibi": "regard.nn.relative_positions:AlibiPositions",
    },
    base="regard.nn.positions:Positions",
    section=PositionsSection,
)
CELLS: Kinds[Any] = Kinds(
    "cell",
    "gru",
    {
        "tanh": "regard.nn.recurrent_layers:TanhRNN",
        "gru": "regard.nn.recurrent_layers:GRU",
        "lstm": "regard.nn.recurrent_layers:LSTM",
        "ssru": "regard.nn.ssru:SSRU",
    },
    base="regard.nn.recurrent_layers:RecurrentLayers",
)
WIRINGS: Kinds[Any] = Kinds(
    "wiring",
    "after",
    {
        "before": "regard.nn.wirings:AttendBeforeDecoder",
        "after": "regard.nn.wirings:AttendAfterDecoder",
        "input-feeding": "regard.nn.wirings:InputFeedingDecoder",
    },
    base="regard.nn.recurrent:RecurrentDecoder",
)
STARTS: Kinds[Any] = Kinds(
    "start",
    "tanh",
    {
        "copy": "regard.nn.recurrent_start:CopyStart",
        "tanh": "regard.nn.recurrent_start:TanhStart",
        "relu": "regard.nn.recurrent_start:ReluStart",
        "zeros": "regard.nn.recurrent_start:ZeroStart",
    },
    base="torch.nn:Module",
)
READOUTS: Kinds[Any] = Kinds(
    "readout",
    "direct",
    {
        "direct": "regard.nn.readout:DirectReadout",
        "tied": "regard.nn.readout:TiedReadout",
    },
    base="regard.nn.readout:Readout",
)


class StateShape(NamedTuple):
    """Shape of a recurrent state.

    Args:
        tensors: Number of tensors [layers, batch, size]; an LSTM has two.
        layers: Number of layers.
        size: Size of a layer's state.
    """

    tensors: int
    layers: int
    size: int

    def __str__(self) -> str:
        return f"{self.layers} layer(s) of {self.size}{' and memory cells' if self.tensors == 2 else ''}"


class EncoderDecoderSection(KindSection):
    """Settings that every encoder and every decoder has.

    Attributes:
        embedding: Size of the token embeddings.
        pretrained_embeddings: A file of word vectors with which the token embeddings of a new run start: the text
            format of word2vec, plain or .gz; None: they are drawn.
        positions: The position encoding.
        size: Size of a state. A bidirectional encoder has this size in each direction.
        layers: Number of layers.
        takes_relative_positions: Whether it has self-attention heads in which relative positions act.
    """

    takes_relative_positions: ClassVar[bool] = False
    embedding: Size = 64
    pretrained_embeddings: str | None = Field(default=None, min_length=1)
    positions: Annotated[SerializeAsAny[PositionsSection], SectionOf(POSITIONS)] = Field(
        default_factory=POSITIONS.default_section
    )
    size: Size = 128
    layers: Count = 1

    @model_validator(mode="after")
    def _check_positions(self) -> Self:
        if self.positions.is_relative and not self.takes_relative_positions:
            others = [kind for kind in POSITIONS if not POSITIONS[kind].Section.is_relative]
            raise invalid_combination(
                "positions.kind",
                f"'{self.positions.label}' acts on the heads of self-attention layers, which '{self.label}' does not "
                f"have; choose {', '.join(others[:-1])} or {others[-1]}",
            )
        return self


class EncoderSection(EncoderDecoderSection):
    """Settings that every encoder has."""

    @property
    @abstractmethod
    def state_size(self) -> int:
        """Size of the encoder's state at one position."""

    @property
    @abstractmethod
    def final_state(self) -> StateShape:
        """Shape of the state that the encoder ends with."""


class DecoderSection(EncoderDecoderSection):
    """Settings that every decoder has.

    Attributes:
        readout: The layer between the decoder's features and the logits.
    """

    readout: Annotated[str, NameOf(READOUTS)] = READOUTS.default

    def check_encoder(self, encoder: EncoderSection) -> None:
        """Raise `invalid_combination` if the decoder cannot start from the final state of an encoder.

        Args:
            encoder: The settings of the encoder.
        """

    def check_attention(self, attention: AttentionSection) -> None:
        """Raise `invalid_combination` if the decoder cannot learn with an attention mechanism.

        Args:
            attention: The settings of the mechanism.
        """


ENCODERS: Kinds[EncoderSection] = Kinds(
    "encoder",
    "recurrent",
    {
        "recurrent": "regard.nn.recurrent:RecurrentEncoder",
        "self-attention": "regard.nn.transformer:SelfAttentionEncoder",
        "plain-attention": "regard.nn.attention_encoders:PlainAttentionEncoder",
        "recurrent-self-attention": "regard.nn.attention_encoders:RecurrentSelfAttentionEncoder",
    },
    base="regard.nn.encoder_decoder:Encoder",
    section=EncoderSection,
)
DECODERS: Kinds[DecoderSection] = Kinds(
    "decoder",
    "recurrent",
    {
        "recurrent": "regard.nn.recurrent:RecurrentDecoder",
        "transformer": "regard.nn.transformer:TransformerDecoder",
    },
    base="regard.nn.encoder_decoder:Decoder",
    section=DecoderSection,
)


class LearningRateSection(KindSection):
    """Settings that every learning-rate schedule has.

    Attributes:
        peak: The largest learning rate.
        warmup: Share of all steps in which the rate rises to its peak; None: the default of the kind.
        warmup_steps: The number of these steps, instead of their share.
    """

    peak: float = Field(default=0.003, gt=0)
    warmup: float | None = Field(default=None, ge=0, le=1)
    warmup_steps: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _check_warmup(self) -> Self:
        if self.warmup is not None and self.warmup_steps is not None:
            raise invalid_combination(
                "warmup_steps", f"warmup ({self.warmup:g}) is a share of all steps and excludes it; set one to null"
            )
        return self


class TeacherForcingSection(KindSection):
    """Settings that every teacher-forcing schedule has.

    Attributes:
        ratio: Share of reference tokens among the decoder's inputs in the first epoch.
    """

    ratio: float = Field(default=1.0, ge=0, le=1)


class ConsistencySection(KindSection):
    """Settings that every kind of consistency regularization has.

    Attributes:
        needs_dropout: Whether it compares predictions that differ by dropout alone.
    """

    needs_dropout: ClassVar[bool] = False


OPTIMIZERS: Kinds[Any] = Kinds(
    "optimizer",
    "adam",
    {
        "adam": "torch.optim:Adam",
        "adamw": "torch.optim:AdamW",
    },
)
LEARNING_RATES: Kinds[LearningRateSection] = Kinds(
    "learning rate",
    "one-cycle",
    {
        "constant": "regard.training.learning_rates:ConstantRate",
        "one-cycle": "regard.training.learning_rates:OneCycleRate",
        "inverse-square-root": "regard.training.learning_rates:InverseSquareRootRate",
        "plateau": "regard.training.learning_rates:PlateauRate",
    },
    base="regard.training.learning_rates:LearningRate",
    section=LearningRateSection,
)
TEACHER_FORCING_SCHEDULES: Kinds[TeacherForcingSection] = Kinds(
    "teacher forcing",
    "constant",
    {
        "constant": "regard.training.teacher_forcing:ConstantTeacherForcing",
        "stepped": "regard.training.teacher_forcing:SteppedTeacherForcing",
        "linear": "regard.training.teacher_forcing:LinearTeacherForcing",
        "exponential": "regard.training.teacher_forcing:ExponentialTeacherForcing",
        "inverse-sigmoid": "regard.training.teacher_forcing:InverseSigmoidTeacherForcing",
    },
    base="regard.training.teacher_forcing:TeacherForcing",
    section=TeacherForcingSection,
)
CONSISTENCIES: Kinds[ConsistencySection] = Kinds(
    "consistency",
    "none",
    {
        "none": "regard.training.objective:CrossEntropy",
        "r-drop": "regard.training.objective:RDrop",
        "simcut": "regard.training.objective:SimCut",
    },
    base="regard.training.objective:Objective",
    section=ConsistencySection,
)
