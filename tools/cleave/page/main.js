// Fills the page.

function drawSummary() {
  document.title = plan.model + ' – plan';
  byId('title').textContent = plan.model;
  byId('lead').textContent = plan.lead;
  byId('facts').replaceWith(factList(plan.facts));
}

function drawStageTable() {
  byId('stages').hidden = !plan.stages.length;
  const time = (title, key) => ({title, number: true, cell: stage => secondsText(stage[key])});
  const columns = [
    {title: 'stage', cell: stage => stage.name},
    {title: 'devices', cell: stage => plan.meshes[stage.mesh].devices},
    {title: 'operators', number: true, cell: stage => String(stage.operators)},
    time('forward', 'forward')];
  if (plan.training) columns.push(time('backward, input', 'input'), time('backward, weights', 'weights'));
  columns.push(time('send', 'send'), time('once a step', 'step'),
    {title: 'in flight', number: true, cell: stage => String(stage.inFlight)});
  if (plan.training)
    columns.push({title: 'recompute', cell: stage => stage.recompute},
      {title: 'zero', number: true, cell: stage => String(stage.zero)});
  fillTable(byId('stage-table'), columns, plan.stages);
}

function drawDevices() {
  const titles = plan.devices.columns;
  fillTable(byId('device-table'),
    titles.map((title, index) => ({title, long: index === 0, number: index > 1, cell: row => row[index]})), plan.devices.rows);
}

function drawAlternatives() {
  byId('alternatives').hidden = !plan.alternatives.length;
  fillTable(byId('alternative-table'), [
    {title: 'plan', long: true, cell: other => other.name},
    {title: 'step', number: true, cell: other => secondsText(other.seconds)},
    {title: 'against this', number: true,
      cell: other => other.seconds >= 0 ? changeText(other.seconds, plan.stepSeconds) : '-'},
    {title: 'memory', number: true, cell: other => other.bytes > 0 ? bytesText(other.bytes) : '-'},
    {title: 'why not', long: true, cell: other => other.whyNot || (other.seconds > plan.stepSeconds ? 'slower' : '-')},
  ], plan.alternatives);
}

function drawSections() {
  for (const section of document.querySelectorAll('main > section'))
    if (!section.hidden)
      byId('sections').append(element('a', {href: '#' + section.id}, section.querySelector('h2').textContent));
}

drawSummary();
drawGraph();
drawTable();
drawTimeline();
drawMemory();
drawStageTable();
drawDevices();
drawAlternatives();
drawSections();
showDetails('No operator chosen', [['', 'Choose one in the graph or in the table.']]);
chooseFromAddress();
window.addEventListener('hashchange', chooseFromAddress);
document.documentElement.dataset.ready = 'true';
