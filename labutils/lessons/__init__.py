"""What single units show: their experiments, tables and pictures. A notebook knows each module as `lab.NAME`."""
