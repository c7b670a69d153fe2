// Elements, and numbers as the command writes them.

const plan = JSON.parse(document.getElementById('plan').textContent);
const byId = id => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function scaled(value, step, units) {
  let unit = 0;
  while (Math.abs(value) >= step && unit + 1 < units.length) { value /= step; ++unit; }
  return [value, units[unit]];
}

function bytesText(bytes) {
  const [value, unit] = scaled(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
  return value.toFixed(unit === 'B' ? 0 : 1) + ' ' + unit;
}

function countText(value, unit) {
  const [short, prefix] = scaled(value, 1000, ['', 'k', 'M', 'G', 'T', 'P', 'E']);
  return short.toFixed(2) + ' ' + prefix + unit;
}

function secondsText(seconds) {
  if (seconds < 0) return '-';
  if (seconds >= 1 || seconds === 0) return seconds.toFixed(2) + ' s';
  return seconds >= 1e-3 ? (seconds * 1e3).toFixed(2) + ' ms' : (seconds * 1e6).toFixed(2) + ' us';
}

function changeText(value, reference) {
  if (!(reference > 0)) return '';
  const percent = 100 * (value / reference - 1);
  return (percent < 0 ? '' : '+') + percent.toFixed(1) + ' %';
}

/// Pairs of a name and a value, or of a name and elements, as a list; pairs without a value are left out.
function factList(pairs) {
  const list = element('dl');
  for (const [name, value] of pairs) {
    if (value === undefined || value === null || value === '') continue;
    list.append(element('dt', {}, name), element('dd', {}, ...(Array.isArray(value) ? value : [String(value)])));
  }
  return list;
}

/// Columns: {title, cell(row) → text, key(row) → what it is sorted by, number: right-aligned, long: may wrap}.
function fillTable(table, columns, rows) {
  const head = element('tr');
  for (const column of columns)
    head.append(element('th', {scope: 'col', class: column.number ? 'number' : ''}, column.title));
  table.replaceChildren(element('thead', {}, head), element('tbody', {}, ...rows.map(row => tableRow(columns, row))));
}

function tableRow(columns, row) {
  const line = element('tr');
  for (const column of columns) {
    const cell = column.cell(row);
    line.append(element('td', {class: column.number ? 'number' : column.long ? 'long' : ''}, cell));
  }
  return line;
}

function legend(parent, entries) {
  for (const [text, mark] of entries) {
    const color = element('i');
    if (mark.startsWith('#')) color.style.background = mark;
    else color.className = mark;
    parent.append(element('span', {class: 'key'}, color, text));
  }
}
