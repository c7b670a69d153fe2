// Places the nodes of a graph in layers (Sugiyama, Tagawa and Toda 1981): the longest path from the sources gives the
// layer, medians of the neighbours the order within it. Long edges pass through dummies, which keep their way free.

const boxWidth = 150, boxHeight = 40, gapX = 26, gapY = 34, dummyWidth = 10, longestRoute = 60;

function layoutGraph(nodes, edges) {
  const layers = layersOf(nodes.length, edges);
  const items = nodes.map((node, index) => ({layer: layers[index], width: boxWidth, above: [], below: []}));
  const routes = edges.map(([from, to]) => routeOf(items, from, to));
  const rows = [];
  items.forEach((item, index) => (rows[item.layer] ??= []).push(index));
  for (let sweep = 0; sweep < 6; ++sweep) orderRows(items, rows, sweep % 2 === 0);
  placeRows(items, rows);
  return {items, routes};
}

/// Longest paths; edges go to later nodes, and those that do not are drawn but not counted. What reads nothing, a
/// weight, stands just above its first reader.
function layersOf(count, edges) {
  const layers = new Array(count).fill(0);
  const into = Array.from({length: count}, () => []);
  for (const [from, to] of edges) if (from < to) into[to].push(from);
  for (let node = 0; node < count; ++node)
    for (const from of into[node]) layers[node] = Math.max(layers[node], layers[from] + 1);
  const lowest = new Array(count).fill(Infinity);
  for (const [from, to] of edges) if (from < to) lowest[from] = Math.min(lowest[from], layers[to] - 1);
  for (let node = 0; node < count; ++node)
    if (!into[node].length && lowest[node] < Infinity) layers[node] = lowest[node];
  return layers;
}

/// The items that an edge passes, its ends included.
function routeOf(items, from, to) {
  const route = [from], span = items[to].layer - items[from].layer;
  if (span > 1 && span <= longestRoute)
    for (let layer = items[from].layer + 1; layer < items[to].layer; ++layer) {
      items.push({layer, width: dummyWidth, above: [], below: []});
      route.push(items.length - 1);
    }
  route.push(to);
  if (span >= 1 && span <= longestRoute)
    for (let i = 0; i + 1 < route.length; ++i) {
      items[route[i]].below.push(route[i + 1]);
      items[route[i + 1]].above.push(route[i]);
    }
  return route;
}

function orderRows(items, rows, down) {
  const place = new Array(items.length);
  for (const row of rows) row.forEach((item, position) => { place[item] = position; });
  for (const row of down ? rows : [...rows].reverse()) {
    const weight = new Map(row.map(item => {
      const near = (down ? items[item].above : items[item].below).map(other => place[other]).sort((a, b) => a - b);
      return [item, near.length ? near[near.length >> 1] : place[item]];
    }));
    row.sort((a, b) => weight.get(a) - weight.get(b) || place[a] - place[b]);
    row.forEach((item, position) => { place[item] = position; });
  }
}

/// Each item near the middle of those above it, as far as its left neighbour allows; rows are then centred on that.
function placeRows(items, rows) {
  rows.forEach((row, layer) => {
    let left = -Infinity, error = 0;
    for (const index of row) {
      const item = items[index], near = item.above.map(other => items[other].x);
      const wish = near.length ? near.reduce((a, b) => a + b) / near.length : 0;
      item.x = Math.max(wish, left + item.width / 2);
      item.y = layer * (boxHeight + gapY);
      left = item.x + item.width / 2 + gapX;
      error += item.x - wish;
    }
    for (const index of row) items[index].x -= error / row.length;
  });
}
