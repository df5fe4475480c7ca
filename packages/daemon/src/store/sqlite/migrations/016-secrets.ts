/** Secrets of the house: what they are called, how they are shown, and ciphertext that only the gate can open. */
export const secrets = `
create table secret (
  name text primary key,
  box text not null,
  mask text not null,
  changed_at integer not null
) strict;
`
