// When what happens in a step, and how much memory is in use; both charts show the same span of time.

const kinds = ['forward', 'backward, input', 'backward, weights', 'communication', 'once a step', 'compute', 'host'];
const kindColors = ['kind0', 'kind1', 'kind2', 'kind3', 'kind4', 'kind0', 'kind4'];
const memoryKinds = [['parameters', 'kind0'], ['gradients', 'kind1'], ['optimizer', 'kind2'],
  ['activations', 'kind4'], ['transient', 'kind5']];
const trackHeight = 26;
const span = {begin: 0, end: 1};
const charts = [];

function drawTimeline() {
  const timeline = plan.timeline;
  if (!timeline.events.length) {
    byId('timeline').hidden = true;
    return;
  }
  byId('timeline-note').textContent = [timeline.source, timeline.note].filter(text => text).join('; ');
  const present = new Set(timeline.events.map(event => event[1]));
  legend(byId('time-legend'), kinds.map((name, kind) => [name, kindColors[kind]]).filter((_, kind) => present.has(kind)));
  const svg = chart(byId('time-chart'), timeline.tracks, trackHeight);
  timeline.events.forEach(([track, kind, begin, end, label]) => {
    const facts = `${timeline.tracks[track]}: ${label}, ${kinds[kind]}, ${secondsText(begin)} to ${secondsText(end)}`;
    const bar = shape('rect', {class: kindColors[kind], x: begin, width: end - begin, y: track * trackHeight + 3,
      height: trackHeight - 6}, shape('title', {}, facts));
    bar.addEventListener('click', () => { byId('time-facts').textContent = facts; });
    svg.append(bar);
  });
  moveTime();
  fitTime();
}

/// A chart with a row a name, whose horizontal axis is seconds.
function chart(parent, names, height) {
  const column = element('div', {class: 'names'});
  for (const name of names) {
    const row = element('div', {title: name}, name);
    row.style.height = row.style.lineHeight = height + 'px';
    column.append(row);
  }
  const svg = shape('svg', {preserveAspectRatio: 'none', height: names.length * height, role: 'img',
    'aria-label': `chart of ${names.length} rows`});
  const axis = element('div', {class: 'axis'}, ...Array.from({length: 5}, () => element('span')));
  parent.append(column, svg, axis);
  charts.push({svg, axis, height: names.length * height});
  return svg;
}

function applySpan() {
  for (const {svg, axis, height} of charts) {
    svg.setAttribute('viewBox', `${span.begin} 0 ${span.end - span.begin} ${height}`);
    [...axis.children].forEach((label, index) => {
      label.textContent = secondsText(Math.max(0, span.begin + (span.end - span.begin) * index / 4));
    });
  }
}

function fitTime() {
  span.begin = 0;
  span.end = plan.timeline.seconds || 1;
  applySpan();
}

/// The span becomes `factor` times as long around its middle and moves by `shift` of its length, within the step.
function changeSpan(factor, shift) {
  const length = Math.min(plan.timeline.seconds, (span.end - span.begin) * factor);
  const middle = (span.begin + span.end) / 2 + shift * length;
  span.begin = Math.min(Math.max(0, middle - length / 2), plan.timeline.seconds - length);
  span.end = span.begin + length;
  applySpan();
}

function moveTime() {
  const actions = {'time-in': [0.5, 0], 'time-out': [2, 0], 'time-left': [1, -0.25], 'time-right': [1, 0.25]};
  for (const [id, [factor, shift]] of Object.entries(actions))
    byId(id).addEventListener('click', () => changeSpan(factor, shift));
  byId('time-fit').addEventListener('click', fitTime);
}

function drawMemory() {
  const stages = plan.stages.filter(stage => stage.memory);
  const devices = plan.memory;
  byId('memory').hidden = !stages.length && !devices.length;
  const largest = most([plan.memoryLimit, ...devices.map(device => device.bytes),
    ...stages.map(stage => stage.memory.reduce((a, b) => a + b, 0))]);
  const bars = byId('memory-bars');
  if (stages.length) {
    const keys = element('div', {class: 'tools'});
    legend(keys, memoryKinds);
    bars.append(keys);
  }
  stages.slice(0, 64).forEach(stage => bars.append(memoryBar(stage.name, stage.memory, largest)));
  if (!stages.length)
    devices.slice(0, 64).forEach(device => bars.append(memoryBar(device.name, [device.bytes], largest)));
  drawMemoryOverTime(largest);
}

function memoryBar(name, parts, largest) {
  const total = parts.reduce((a, b) => a + b, 0), track = element('div', {class: 'track'});
  parts.forEach((bytes, kind) => {
    const part = element('span', {class: memoryKinds[kind][1], title: `${memoryKinds[kind][0]}: ${bytesText(bytes)}`});
    part.style.width = 100 * bytes / largest + '%';
    track.append(part);
  });
  if (plan.memoryLimit > 0) {
    const limit = element('span', {class: 'limit', title: 'limit: ' + bytesText(plan.memoryLimit)});
    limit.style.left = 100 * plan.memoryLimit / largest + '%';
    track.append(limit);
  }
  const of = plan.memoryLimit > 0 ? ` of ${bytesText(plan.memoryLimit)}` : '';
  return element('div', {class: 'bar'}, element('span', {title: name}, clipped(name, 20)), track,
    element('span', {}, bytesText(total) + of));
}

function drawMemoryOverTime(largest) {
  const {memory, memoryTracks: tracks, seconds} = plan.timeline;
  if (!memory.length) return;
  const height = 44, svg = chart(byId('memory-chart'), tracks, height);
  tracks.forEach((name, track) => {
    const base = (track + 1) * height - 2, y = bytes => base - (height - 6) * bytes / largest;
    let path = `M 0 ${base}`, last = base;
    for (const [of, at, bytes] of memory) {
      if (of !== track) continue;
      path += ` L ${at} ${last} L ${at} ${y(bytes)}`;
      last = y(bytes);
    }
    svg.append(shape('path', {class: 'kind0', d: `${path} L ${seconds} ${last} L ${seconds} ${base} Z`},
      shape('title', {}, name)));
  });
  applySpan();
}
