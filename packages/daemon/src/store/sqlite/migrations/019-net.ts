/** What went through every net window is looked at for the audit of the whole house. */
export const net = `
create index event_net on event (pos) where type = 'net';
`
