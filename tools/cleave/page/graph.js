// The picture of the graph: boxes coloured by mesh, edges, stages; drag and wheel, or buttons and keys, move it.

const view = {x: 0, y: 0, scale: 1};
const boxes = [], places = [];
let canvas, extent;

function drawGraph() {
  const {nodes, edges} = plan.graph;
  byId('graph-note').textContent = plan.graph.note;
  const {items, routes} = layoutGraph(nodes, edges);
  canvas = shape('g');
  drawStages(nodes, items);
  edges.forEach((edge, index) => drawEdge(edge, routes[index].map(item => items[item])));
  nodes.forEach((node, index) => drawNode(node, index, items[index]));
  const picture = byId('picture');
  picture.replaceChildren(canvas);
  const xs = items.map(item => item.x), ys = items.map(item => item.y);
  extent = {left: least(xs) - boxWidth, right: most(xs) + boxWidth, top: least(ys) - 60, bottom: most(ys) + 60};
  movePicture(picture);
  fitPicture();
  const used = new Set(nodes.map(node => node.mesh));
  const keys = plan.meshes.filter((_, index) => used.has(index)).map(mesh => [`${mesh.name}: ${mesh.devices}`, mesh.color]);
  legend(byId('legend'), keys.slice(0, 8));
  if (keys.length > 8) byId('legend').append(`and ${keys.length - 8} more meshes, in the same colours`);
}

function least(values) { return values.reduce((a, b) => Math.min(a, b), Infinity); }
function most(values) { return values.reduce((a, b) => Math.max(a, b), -Infinity); }

function clipped(text, length) {
  return text.length <= length ? text : text.slice(0, length / 2) + '…' + text.slice(text.length - length / 2 + 1);
}

function drawNode(node, index, item) {
  const single = node.ops.length === 1 && node.single;
  const first = plan.ops[node.ops[0]];
  const below = single ? [first.kind, first.split].filter(text => text).join(', ') : `${node.ops.length} operators`;
  const box = shape('g', {class: 'node', tabindex: index === 0 ? 0 : -1, role: 'button', 'data-label': node.label,
    'aria-label': `${node.label}, ${below}, ${plan.meshes[node.mesh].devices}`,
    transform: `translate(${item.x - boxWidth / 2} ${item.y - boxHeight / 2})`},
    shape('title', {}, `${node.label}\n${below}\n${plan.meshes[node.mesh].devices}`),
    shape('rect', {width: boxWidth, height: boxHeight, rx: single ? 6 : 0, fill: plan.meshes[node.mesh].color,
      'stroke-dasharray': single && !first.own ? '4 3' : ''}),
    shape('text', {x: boxWidth / 2, y: 17}, clipped(node.label, 25)),
    shape('text', {x: boxWidth / 2, y: 31, class: 'small'}, clipped(below, 27)));
  box.addEventListener('click', () => chooseNode(index));
  box.addEventListener('keydown', event => nodeKey(event, index));
  boxes.push(box);
  places.push(item);
  canvas.append(box);
}

/// A curve through the middles of what the edge passes.
function drawEdge([from, to, bytes], stops) {
  const [first, last] = [stops[0], stops[stops.length - 1]];
  let path = `M ${first.x} ${first.y + boxHeight / 2}`, before = {x: first.x, y: first.y + boxHeight / 2};
  stops.slice(1).forEach((stop, index) => {
    const end = {x: stop.x, y: index === stops.length - 2 ? last.y - boxHeight / 2 : stop.y};
    const bend = (end.y - before.y) / 2;
    path += ` C ${before.x} ${before.y + bend} ${end.x} ${end.y - bend} ${end.x} ${end.y}`;
    before = end;
  });
  canvas.append(shape('path', {class: bytes > 0 ? 'edge cross' : 'edge', d: path}));
  if (bytes > 0)
    canvas.append(shape('text', {class: 'bytes', x: (first.x + last.x) / 2 + 6, y: last.y - boxHeight / 2 - 8},
      bytesText(bytes)));
}

function drawStages(nodes, items) {
  if (plan.stages.length < 2) return;
  const stages = new Map();
  nodes.forEach((node, index) => {
    const {x, y} = items[index];
    const box = stages.get(node.stage) ?? {left: x, right: x, top: y, bottom: y, mesh: node.mesh};
    stages.set(node.stage, {left: Math.min(box.left, x), right: Math.max(box.right, x), top: Math.min(box.top, y),
      bottom: Math.max(box.bottom, y), mesh: box.mesh});
  });
  for (const [stage, box] of stages) {
    const x = box.left - boxWidth / 2 - 14, y = box.top - boxHeight / 2 - 7;
    canvas.append(shape('rect', {class: 'stage', x, y, width: box.right - box.left + boxWidth + 28,
      height: box.bottom - box.top + boxHeight + 14, rx: 8}),
      shape('text', {class: 'stage-name', x: box.right + boxWidth / 2 + 20, y: y + 14},
        `stage ${stage}: ${plan.meshes[box.mesh].devices}`));
  }
}

function chooseNode(index) {
  const node = plan.graph.nodes[index];
  focusNode(index);
  if (node.single) choose(node.ops[0]);
  else showDetails(node.label, groupFacts(node));
  markNode(index);
}

function markNode(index) {
  boxes.forEach((box, other) => box.classList.toggle('chosen', other === index));
}

function focusNode(index) {
  boxes.forEach((box, other) => box.setAttribute('tabindex', other === index ? 0 : -1));
}

function nodeKey(event, index) {
  const step = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[event.key];
  if (event.key === 'Enter' || event.key === ' ') chooseNode(index);
  else if (event.key === '+' || event.key === '=') zoomPicture(1.25);
  else if (event.key === '-') zoomPicture(0.8);
  else if (step && boxes[index + step]) {
    focusNode(index + step);
    boxes[index + step].focus({preventScroll: true});
    centreOn(index + step);
  } else return;
  event.preventDefault();
}

function applyView() {
  canvas.setAttribute('transform', `translate(${view.x} ${view.y}) scale(${view.scale})`);
}

function centreOn(index) {
  const {x, y} = places[index];
  const {clientWidth, clientHeight} = byId('picture');
  view.x = clientWidth / 2 - x * view.scale;
  view.y = clientHeight / 2 - y * view.scale;
  applyView();
}

/// The whole where it stays legible, else its beginning.
function fitPicture() {
  const {clientWidth, clientHeight} = byId('picture');
  const whole = Math.min(clientWidth / (extent.right - extent.left), clientHeight / (extent.bottom - extent.top));
  view.scale = Math.min(1.2, Math.max(whole, 0.6));
  view.x = clientWidth / 2 - (extent.left + extent.right) / 2 * view.scale;
  view.y = -extent.top * view.scale;
  applyView();
}

function zoomPicture(factor, x = byId('picture').clientWidth / 2, y = byId('picture').clientHeight / 2) {
  const scale = Math.min(4, Math.max(0.03, view.scale * factor));
  view.x = x - (x - view.x) * scale / view.scale;
  view.y = y - (y - view.y) * scale / view.scale;
  view.scale = scale;
  applyView();
}

function movePicture(picture) {
  let from = null;
  picture.addEventListener('pointerdown', event => { from = {x: event.clientX - view.x, y: event.clientY - view.y}; });
  window.addEventListener('pointerup', () => { from = null; });
  window.addEventListener('pointermove', event => {
    if (!from) return;
    view.x = event.clientX - from.x;
    view.y = event.clientY - from.y;
    applyView();
  });
  picture.addEventListener('wheel', event => {
    event.preventDefault();
    const box = picture.getBoundingClientRect();
    zoomPicture(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }, {passive: false});
  byId('zoom-in').addEventListener('click', () => zoomPicture(1.25));
  byId('zoom-out').addEventListener('click', () => zoomPicture(0.8));
  byId('zoom-fit').addEventListener('click', fitPicture);
  listeners.push(index => {
    const node = plan.graph.nodes.findIndex(other => other.ops.includes(index));
    if (node < 0) return;
    markNode(node);
    focusNode(node);
    centreOn(node);
  });
}
