// What the page says about the operator, or the operators, that somebody chose.

const readers = plan.ops.map(() => []);
plan.ops.forEach((op, index) => op.inputs.forEach(input => readers[input].push(index)));
const listeners = [];
let chosenOp = -1;

function devicesOf(op) { return plan.meshes[op.mesh].devices; }

function opButtons(indices) {
  const shown = indices.slice(0, 24).map(index => element('button', {
    type: 'button', class: 'link', onclick: () => choose(index)
  }, plan.ops[index].name));
  if (indices.length > shown.length) shown.push(`and ${indices.length - shown.length} more`);
  return shown;
}

function alternativeText(op) {
  if (!op.alternative) return '';
  if (!(op.alternativeSeconds >= 0)) return op.alternative;
  return `${op.alternative}: a step of ${secondsText(op.alternativeSeconds)} ` +
    changeText(op.alternativeSeconds, plan.stepSeconds);
}

function briefAlternative(op) {
  const change = op.alternativeSeconds >= 0 ? changeText(op.alternativeSeconds, plan.stepSeconds) : '';
  return op.alternative + (change ? ` (${change})` : '');
}

function opFacts(op, index) {
  return [
    ['operator', op.kind + (op.shape ? ' ' + op.shape : '')],
    ['devices', `${devicesOf(op)} (${plan.meshes[op.mesh].name})`],
    ['stage', plan.stages.length > 1 ? op.stage : ''],
    ['split', op.split || 'none'],
    ['decided by', op.by],
    ['computed by', op.kernel],
    ['time', op.seconds >= 0 ? secondsText(op.seconds) : ''],
    ['communication', op.communication > 0 ? secondsText(op.communication) : ''],
    ['best other', alternativeText(op)],
    ['work', countText(op.flops, 'flop')],
    ['moves', bytesText(op.bytes)],
    ['receives', bytesText(op.received)],
    ['parameters', bytesText(op.parameters)],
    ['result', bytesText(op.result)],
    ['reads', opButtons(op.inputs)],
    ['read by', opButtons(readers[index])],
  ];
}

function groupFacts(node) {
  const sum = key => node.ops.reduce((total, index) => total + Math.max(0, plan.ops[index][key]), 0);
  return [
    ['operators', node.ops.length],
    ['devices', plan.meshes[node.mesh].devices],
    ['stage', plan.stages.length > 1 ? node.stage : ''],
    ['time', plan.ops.some(op => op.seconds >= 0) ? secondsText(sum('seconds')) : ''],
    ['work', countText(sum('flops'), 'flop')],
    ['parameters', bytesText(sum('parameters'))],
    ['contains', opButtons(node.ops)],
  ];
}

function showDetails(title, facts) {
  byId('details').replaceChildren(element('h3', {}, title), factList(facts));
}

/// Shows the facts of an operator, and its name in the address, so that it can be linked to.
function choose(index) {
  chosenOp = index;
  const op = plan.ops[index];
  showDetails(op.name, opFacts(op, index));
  history.replaceState(null, '', '#op=' + encodeURIComponent(op.name));
  for (const listener of listeners) listener(index);
}

function chooseFromAddress() {
  if (!location.hash.startsWith('#op=')) return;
  const name = decodeURIComponent(location.hash.slice(4));
  const index = plan.ops.findIndex(op => op.name === name);
  if (index >= 0) choose(index);
}
