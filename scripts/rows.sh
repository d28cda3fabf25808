# Sourced by recipe.sh: the models that a recipe can train, one function for each kind.

declare -A TITLES=(
  [teacher]="Teacher"
  [scratch]="Same size, from scratch"
  [kd]="Same size, distilled"
  [pkd]="Patient-KD"
  [can]="CAN"
  [deep_shallow]="Deep-shallow"
  [pet]="PET"
  [pet_sampled]="PET, heads sampled"
  [pet_long]="PET, trained as long as the sampled one"
  [pet_qk]="PET, decoder shares Q-K"
  [pet_kv]="PET, decoder shares K-V"
  [pet_no_warmup]="PET, no simplified task"
  [pet_project]="PET, simplified task by projection"
  [pet_replace]="PET, simplified task by another output layer"
  [scratch_seqkd]="Same size, sequence-level KD"
  [speed_seqkd]="Same speed, sequence-level KD"
  [deep_shallow_seqkd]="Deep-shallow, sequence-level KD"
  [pet_seqkd]="PET, sequence-level KD"
)

# in the order of the report
known_rows() {
  echo teacher scratch kd pkd can deep_shallow pet pet_sampled pet_long pet_qk pet_kv pet_no_warmup \
    pet_project pet_replace scratch_seqkd speed_seqkd deep_shallow_seqkd pet_seqkd
}

is_row() {
  [ -n "${TITLES[$1]:-}" ]
}

row_title() {
  echo "${TITLES[$1]}"
}

# train_row ROW SEED
train_row() {
  local run=$RUNS/$1.seed$2
  case $1 in
    teacher) fit "$RUNS/teacher" "$2" plain "${TEACHER[@]}" ;;
    scratch) student "$run" "$2" plain "${PLAIN_ARCH[@]}" ;;
    kd) student "$run" "$2" distil "${PLAIN_ARCH[@]}" ;;
    pkd) student "$run" "$2" patient "${PLAIN_ARCH[@]}" ;;
    can) student "$run" "$2" plain "${CAN_ARCH[@]}" ;;
    deep_shallow) student "$run" "$2" plain "${DEEP_ARCH[@]}" ;;
    pet) warmed_up "$run" "$2" "${PET_ARCH[@]}" ;;
    pet_sampled) sampled "$run" "$2" ;;
    pet_long) tuned_on "$run" "$2" "$RUNS/pet.seed$2" ;;
    pet_qk) warmed_up "$run" "$2" "${PET_ARCH[@]}" --decoder-pairs qk ;;
    pet_kv) warmed_up "$run" "$2" "${PET_ARCH[@]}" --decoder-pairs kv ;;
    pet_no_warmup) student "$run" "$2" distil "${PET_ARCH[@]}" ;;
    pet_project) warmed_up "$run" "$2" "${PET_ARCH[@]}" -- --simplified-head project ;;
    pet_replace) warmed_up "$run" "$2" "${PET_ARCH[@]}" -- --simplified-head replace ;;
    scratch_seqkd) on_teacher_text student "$run" "$2" plain "${PLAIN_ARCH[@]}" ;;
    speed_seqkd) on_teacher_text student "$run" "$2" plain "${SPEED_ARCH[@]}" ;;
    deep_shallow_seqkd) on_teacher_text student "$run" "$2" plain "${DEEP_ARCH[@]}" ;;
    pet_seqkd) on_teacher_text warmed_up "$run" "$2" "${PET_ARCH[@]}" ;;
  esac
}

# fit RUN SEED LOSS OPTIONS...: one training with a loss of those below
fit() {
  local folder=$1 seed=$2 loss=$3
  shift 3
  "$ROOT/scripts/train.sh" "$folder" "${BIN:-$DATA/bin}" "${COMMON[@]}" --seed "$seed" $(loss_$loss) "$@"
}

SMOOTHING="--label-smoothing 0.1"
loss_plain() { echo "--criterion label_smoothed_cross_entropy $SMOOTHING ${GOLD[*]}"; }
loss_distil() { echo "--criterion pet_distillation $SMOOTHING $(teacher_path) ${DISTILLATION[*]}"; }
loss_patient() { echo "--criterion patient_kd $SMOOTHING $(teacher_path) ${PATIENCE[*]}"; }
loss_simplify() { echo "--criterion pet_simplified_task $(teacher_path) ${SIMPLIFIED[*]}"; }

teacher_path() { echo "--teacher-path $RUNS/teacher/checkpoint_best.pt"; }

# student RUN SEED LOSS ARCH...
student() {
  local folder=$1 seed=$2 loss=$3
  shift 3
  fit "$folder" "$seed" "$loss" "${STUDENT[@]}" $UPDATES "$@"
}

# warmed_up RUN SEED ARCH... [-- OPTIONS of the warm-up]: simplified task, then distillation from it
warmed_up() {
  local folder=$1 seed=$2 arch=()
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    arch+=("$1")
    shift
  done
  [ $# = 0 ] || shift
  fit "$folder/warmup" "$seed" simplify "${STUDENT[@]}" "${WARMUP[@]}" "${arch[@]}" "$@"
  student "$folder" "$seed" distil "${arch[@]}" --finetune-from-model "$folder/warmup/checkpoint_best.pt"
}

# sampled RUN SEED: a wide student, its best heads, fine-tuning
sampled() {
  local folder=$1 seed=$2 wide=$1/wide
  warmed_up "$wide" "$seed" "${WIDE_ARCH[@]}"
  [ -e "$folder/sampled.pt" ] || run pet-fairseq sample-heads --checkpoint "$wide/checkpoint_best.pt" \
    --data "$DATA/bin" --heads "$HEADS" --out "$folder/sampled.pt"
  tuned_on "$folder" "$seed" "$folder/sampled.pt"
}

# tuned_on RUN SEED START: more distillation, from a checkpoint or a run's best one
tuned_on() {
  local start=$3
  [ ! -d "$start" ] || start=$start/checkpoint_best.pt
  local options="\$(pet-fairseq model-options $start)"
  [ "${DRY_RUN:-0}" = 1 ] || options=$(pet-fairseq model-options "$start")
  fit "$1" "$2" distil $options "${STUDENT[@]}" "${FINETUNE[@]}" --finetune-from-model "$start"
}

# on_teacher_text COMMAND...: train on the teacher's translations of the training set
on_teacher_text() {
  "$ROOT/scripts/translate_train.sh" "$RUNS/teacher/checkpoint_best.pt" "$DATA/bin" "$RUNS/teacher_text" "${GENERATE[@]}"
  BIN=$RUNS/teacher_text/bin "$@"
}
