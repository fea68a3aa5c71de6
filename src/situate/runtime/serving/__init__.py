"""What servers of ours are made of: a port with limits (`listener`), who asks and may what (`access`), and noes as
Kubernetes words them (`answers`). What is answered is each product's own."""
