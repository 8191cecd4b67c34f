# The course in a container: JupyterLab at http://localhost:8888 with a token that it prints.
#
#     docker build --build-arg TORCH=cpu -t gpu-kernel-lab .       # without a GPU; 0.5 GB of packages
#     docker build -t gpu-kernel-lab:cuda .                        # for an NVIDIA GPU; 2.9 GB
#     docker run --rm -p 8888:8888 gpu-kernel-lab
#     docker run --rm -p 8888:8888 --gpus all gpu-kernel-lab:cuda
#
# CUDA's libraries come with PyTorch's package, so both are made from the same base; the host needs NVIDIA's driver and
# container toolkit. To keep your work, mount a folder: -v "$PWD/notebooks:/home/learner/course/notebooks".
FROM python:3.12-slim-bookworm

# g++ runs CUDA C++ without a GPU; bubblewrap isolates submissions, where the container may make namespaces.
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap g++ git make \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 learner
USER learner
WORKDIR /home/learner/course

# What packages need comes first: a change of the course does not install them again.
ARG TORCH=
COPY --chown=learner tools/setup.sh tools/setup.sh
COPY --chown=learner requirements.lock requirements.lock
COPY --chown=learner labutils labutils
RUN tools/setup.sh .venv python3 ${TORCH} && rm -rf ~/.cache/pip

# More packages, such as EXTRA=jupyterhub for an image that a hub starts (tools/hub/values.yaml).
ARG EXTRA=
RUN if [ -n "${EXTRA}" ]; then .venv/bin/pip install --no-cache-dir ${EXTRA}; fi

COPY --chown=learner . .
RUN touch .venv/.stamp && cp -r tools/lab/extensions/. .venv/share/jupyter/labextensions/

ENV PATH=/home/learner/course/.venv/bin:$PATH
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--LabApp.app_settings_dir=tools/lab", "notebooks/index.ipynb"]
