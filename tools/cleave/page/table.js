// The table of operators: a click on a title sorts, the field above filters.

const rowLimit = 1000;
const sorting = {column: -1, descending: false};

function operatorColumns() {
  const text = (title, key) => ({title, cell: op => String(key(op)), key});
  const number = (title, key, show) => ({title, number: true, key, cell: op => key(op) > 0 ? show(key(op)) : '-'});
  const columns = [
    {title: 'node', long: true, key: op => op.name, cell: op => element('button', {
      type: 'button', class: 'link', onclick: () => choose(plan.ops.indexOf(op))}, op.name)},
    text('kind', op => op.kind),
    text('devices', devicesOf),
    text('split', op => op.split),
    {...text('decided by', op => op.by), long: true},
    text('computed by', op => op.kernel),
    number('time', op => op.seconds, secondsText),
    number('communication', op => op.communication, secondsText),
    number('work', op => op.flops, flops => countText(flops, 'flop')),
    number('moved', op => op.bytes, bytesText),
    number('received', op => op.received, bytesText),
    number('parameters', op => op.parameters, bytesText),
    {title: 'best other', long: true, key: op => op.alternativeSeconds, cell: briefAlternative},
  ];
  // What says the same of every operator needs no column.
  const differs = column => new Set(plan.ops.map(op => column.key(op))).size > 1;
  return columns.filter((column, index) => index < 2 || differs(column));
}

function compare(a, b) { return typeof a === 'number' ? a - b : String(a).localeCompare(String(b), 'en', {numeric: true}); }

function drawTable() {
  const columns = operatorColumns();
  const head = element('tr'), body = element('tbody');
  columns.forEach((column, index) => {
    const button = element('button', {type: 'button', onclick: () => sortBy(index)}, column.title);
    head.append(element('th', {scope: 'col', class: column.number ? 'number' : '', 'aria-sort': 'none'}, button));
  });
  byId('table').replaceChildren(element('thead', {}, head), body);

  function sortBy(index) {
    sorting.descending = sorting.column === index ? !sorting.descending : Boolean(columns[index].number);
    sorting.column = index;
    fill();
  }

  function fill() {
    const words = byId('filter').value.toLowerCase().split(/\s+/).filter(word => word);
    const matches = op => {
      const said = [op.name, op.kind, op.split, op.by, op.kernel, devicesOf(op)].join(' ').toLowerCase();
      return words.every(word => said.includes(word));
    };
    const rows = plan.ops.filter(matches);
    if (sorting.column >= 0) {
      const key = columns[sorting.column].key, sign = sorting.descending ? -1 : 1;
      rows.sort((a, b) => sign * compare(key(a), key(b)));
    }
    [...head.children].forEach((cell, index) => cell.setAttribute('aria-sort',
      index !== sorting.column ? 'none' : sorting.descending ? 'descending' : 'ascending'));
    body.replaceChildren(...rows.slice(0, rowLimit).map(op => {
      const row = tableRow(columns, op);
      row.classList.toggle('chosen', plan.ops[chosenOp] === op);
      return row;
    }));
    byId('count').textContent = `${rows.length} of ${plan.ops.length}` +
      (rows.length > rowLimit ? `, the first ${rowLimit} shown` : '');
  }

  byId('filter').addEventListener('input', fill);
  listeners.push(fill);
  fill();
}
