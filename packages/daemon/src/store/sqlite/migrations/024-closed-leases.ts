/** A call that cost more than was set aside for it closes its session's lease until somebody sets a budget, whatever becomes of the gate. */
export const closedLeases = `
alter table session add column lease_closed integer not null default 0;
`
